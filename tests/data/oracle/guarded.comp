#version 450
// to[i] = from[i] + b for the first k of them: how many are written, grid and push constants say.
layout(local_size_x = 16) in;
layout(set = 0, binding = 0) readonly buffer From { uint from[]; };
layout(set = 0, binding = 1) writeonly buffer To { uint to[]; };
layout(push_constant) uniform Push { uint k; uint b; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < k) to[i] = from[i % from.length()] + b;
}
