#version 450
// Twice each number.
layout(local_size_x = 64) in;

layout(binding = 0, std430) writeonly buffer Doubled { uint doubled[]; };
layout(binding = 1, std430) readonly buffer Numbers { uint numbers[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < numbers.length()) {
        doubled[i] = 2u * numbers[i];
    }
}
