#version 450
// Two members of four.
layout(local_size_x = 32) in;
struct Box { uint lo; uint hi; uint id; uint pad; };
layout(binding = 0) readonly buffer S { uint src[]; };
layout(binding = 1) buffer D { Box box[]; };
void main() { uint i = gl_GlobalInvocationID.x; box[i].lo = src[i]; box[i].hi = src[i] + 1; }
