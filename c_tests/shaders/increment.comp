#version 450
// data[i] += step, in place: what it writes it has read.
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer Data { uint data[]; };
layout(push_constant) uniform Push { uint count; uint step; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < count) data[i] += step;
}
