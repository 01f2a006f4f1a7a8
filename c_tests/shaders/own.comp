#version 450
// What it loads of its output, the same invocation stored before.
layout(local_size_x = 32) in;
layout(binding = 0) readonly buffer S { uint src[]; };
layout(binding = 1) buffer D { uint dst[]; };
layout(push_constant) uniform P { uint count; } p;
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= p.count) return;
    dst[i] = src[i];
    dst[i] = dst[i] * 2;
}
