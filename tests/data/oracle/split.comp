#version 450
// x[i] = from[i] * k, y[i] = from[i] + b
layout(local_size_x = 16) in;
layout(set = 0, binding = 0) readonly buffer From { uint from[]; };
layout(set = 0, binding = 1) writeonly buffer X { uint x[]; };
layout(set = 0, binding = 2) writeonly buffer Y { uint y[]; };
layout(push_constant) uniform Push { uint k; uint b; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < x.length()) x[i] = from[i % from.length()] * k;
    if (i < y.length()) y[i] = from[i % from.length()] + b;
}
