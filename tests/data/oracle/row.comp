#version 450
// table[k + i] = b + i for four i: which part of what is bound it touches, only the launch can say.
layout(local_size_x = 16) in;
layout(set = 0, binding = 0) writeonly buffer Table { uint table[]; };
layout(push_constant) uniform Push { uint k; uint b; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < 4u && k + i < table.length()) table[k + i] = b + i;
}
