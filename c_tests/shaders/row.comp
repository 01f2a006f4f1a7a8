#version 450
// One row of a table that is bound whole.
layout(local_size_x = 64) in;
layout(std430, set = 0, binding = 0) buffer Table { uint v[]; } table;
layout(push_constant) uniform Push { uint first; uint count; uint add; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < count) table.v[first + i] = i + add;
}
