#version 450
// A second output, on demand.
layout(local_size_x = 32) in;
layout(binding = 0) readonly buffer S { uint src[]; };
layout(binding = 1) writeonly buffer D { uint dst[]; };
layout(binding = 2) writeonly buffer X { uint extra[]; };
layout(push_constant) uniform P { uint wants_extra; } p;
void main() { uint i = gl_GlobalInvocationID.x; dst[i] = src[i]; if (p.wants_extra != 0) extra[i] = 2 * src[i]; }
