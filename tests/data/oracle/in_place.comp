#version 450
// io[i] = io[i] * k + b
layout(local_size_x = 16) in;
layout(set = 0, binding = 0) buffer Io { uint io[]; };
layout(push_constant) uniform Push { uint k; uint b; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < io.length()) io[i] = io[i] * k + b;
}
