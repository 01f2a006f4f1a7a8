#version 450
// A result only if there is one.
layout(local_size_x = 32) in;
layout(binding = 0) readonly buffer S { uint src[]; };
layout(binding = 1) writeonly buffer D { uint hit[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (src[i] == 7) hit[0] = i; }
