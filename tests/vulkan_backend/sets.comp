#version 450
// Adds three buffers that lie in two sets, with gaps between their numbers.

layout(local_size_x = 1) in;
layout(set = 0, binding = 2, std430) readonly buffer A { uint a[]; };
layout(set = 2, binding = 0, std430) readonly buffer B { uint b[]; };
layout(set = 2, binding = 1, std430) readonly buffer C { uint c[]; };
layout(set = 2, binding = 5, std430) writeonly buffer Out { uint sum[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    sum[i] = a[i] + b[i] + c[i];
}
