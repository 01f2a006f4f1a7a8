#version 450
// Counts in its first words how many groups ran and how many invocations; without push constants.
layout(local_size_x = 4, local_size_y = 2) in;
layout(set = 0, binding = 0) buffer Counts { uint groups; uint invocations; };
void main() {
    if (gl_LocalInvocationIndex == 0u) atomicAdd(groups, 1u);
    atomicAdd(invocations, 1u);
}
