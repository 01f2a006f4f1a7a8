#version 450
// Writes its slice, and then far past it.
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) writeonly buffer To { uint to[]; };
layout(push_constant) uniform Push { uint count; uint beyond; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < count) to[i] = 1u;
    to[count + i * beyond] = 0xdeadbeefu;
    to[0x3fffffffu - i] = 0xdeadbeefu;
}
