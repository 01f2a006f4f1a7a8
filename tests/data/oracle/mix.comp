#version 450
// to[i] = x[i] * k + y[i] + b
layout(local_size_x = 16) in;
layout(set = 0, binding = 0) readonly buffer X { uint x[]; };
layout(set = 0, binding = 1) readonly buffer Y { uint y[]; };
layout(set = 0, binding = 2) writeonly buffer To { uint to[]; };
layout(push_constant) uniform Push { uint k; uint b; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < to.length()) to[i] = x[i % x.length()] * k + y[i % y.length()] + b;
}
