#version 450
// Rows of a cache: which bytes are written, the data says.
layout(local_size_x = 32) in;
layout(binding = 0) readonly buffer I { uint at[]; };
layout(binding = 1) readonly buffer S { uint src[]; };
layout(binding = 2) writeonly buffer D { uint dst[]; };
void main() { uint i = gl_GlobalInvocationID.x; dst[at[i]] = src[i]; }
