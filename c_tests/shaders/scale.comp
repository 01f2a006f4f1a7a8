#version 450
// to[i] = from[i] * factor: one input only read, one output only written.
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer From { uint from[]; };
layout(set = 0, binding = 1) writeonly buffer To { uint to[]; };
layout(push_constant) uniform Push { uint count; uint factor; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < count) to[i] = from[i] * factor;
}
