#version 450
// Every second element.
layout(local_size_x = 32) in;
layout(binding = 0) readonly buffer S { uint src[]; };
layout(binding = 1) writeonly buffer D { uint dst[]; };
void main() { uint i = gl_GlobalInvocationID.x; dst[2 * i] = src[i]; }
