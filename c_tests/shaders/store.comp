#version 450
// to[i] = value, with nothing in the source that says `writeonly`: the access must be inferred from what it does.
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer To { uint to[]; };
layout(push_constant) uniform Push { uint count; uint value; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < count) to[i] = value;
}
