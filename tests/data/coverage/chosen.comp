#version 450
// Push constants choose which part of a variable is the index: no number says which one it is.
layout(local_size_x = 64) in;
layout(push_constant) uniform Push { uint flag; uint n; };
layout(binding = 0) writeonly buffer Local { uint by_local[]; };
layout(binding = 1) writeonly buffer Input { uint by_input[]; };
void main() {
    uint at[2];
    at[0] = gl_GlobalInvocationID.x;
    at[1] = gl_GlobalInvocationID.x + n;
    uint k = flag != 0u ? 1u : 0u;
    by_local[at[k]] = 7u;
    by_input[gl_GlobalInvocationID[k]] = 7u;
}
