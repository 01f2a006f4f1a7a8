#version 450
// An array of four buffers, between a buffer before it and one behind.
layout(local_size_x = 16) in;
layout(std430, set = 0, binding = 0) readonly buffer Before { uint v[]; } before;
layout(std430, set = 0, binding = 1) writeonly buffer Target { uint v[]; } targets[4];
layout(std430, set = 0, binding = 2) readonly buffer Behind { uint v[]; } behind;
void main() {
    uint j = gl_GlobalInvocationID.x;
    targets[0].v[j] = before.v[j];
    targets[1].v[j] = behind.v[j];
    targets[2].v[j] = 200 + j;
    targets[3].v[j] = 300 + j;
}
