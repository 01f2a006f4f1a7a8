#version 450
// out[i] = in[i] * factor + ADDED, for the first `count` elements.

layout(local_size_x = 64) in;
layout(constant_id = 3) const uint ADDED = 7;
layout(set = 0, binding = 0, std430) readonly buffer In { uint values[]; } source;
layout(set = 0, binding = 1, std430) writeonly buffer Out { uint values[]; } target;
layout(push_constant) uniform Push { uint factor; uint count; } push;

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < push.count) {
        target.values[i] = source.values[i] * push.factor + ADDED;
    }
}
