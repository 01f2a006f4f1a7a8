#version 450
// to[at[i]] = b: which words are written, the data says.
layout(local_size_x = 16) in;
layout(set = 0, binding = 0) readonly buffer At { uint at[]; };
layout(set = 0, binding = 1) writeonly buffer To { uint to[]; };
layout(push_constant) uniform Push { uint k; uint b; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < at.length()) to[at[i] % to.length()] = b;
}
