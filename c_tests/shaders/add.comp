#version 450
// to[i] = left[i] + right[i]: what two roots in one launch look like.
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer Left { uint left[]; };
layout(set = 0, binding = 1) readonly buffer Right { uint right[]; };
layout(set = 0, binding = 2) writeonly buffer To { uint to[]; };
layout(push_constant) uniform Push { uint count; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < count) to[i] = left[i] + right[i];
}
