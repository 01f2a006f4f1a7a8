#version 450
// to[i] = b
layout(local_size_x = 16) in;
layout(set = 0, binding = 0) buffer To { uint to[]; };
layout(push_constant) uniform Push { uint k; uint b; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < to.length()) to[i] = b;
}
