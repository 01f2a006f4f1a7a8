#version 450
// to[i] = b for every k-th i, which is not what a module can say of itself.
layout(local_size_x = 16) in;
layout(set = 0, binding = 0) writeonly buffer To { uint to[]; };
layout(push_constant) uniform Push { uint k; uint b; };
void main() {
    uint i = gl_GlobalInvocationID.x * k;
    if (i < to.length()) to[i] = b;
}
