#version 450
// First half of a separable blur: along the rows of one tile, halo rows included.
// Row i of the scratch is picture row (first_row + i - radius), held inside the picture, so the second half never clamps.
layout(local_size_x = 16, local_size_y = 16) in;

layout(binding = 0, std430) writeonly buffer Scratch { vec4 scratch[]; };
layout(binding = 1, std430) readonly buffer Photo { uint photo[]; };
layout(binding = 2, std430) readonly buffer Weights { float weights[]; };

layout(push_constant) uniform Push {
    uint width;
    uint height;
    uint first_row;
    uint rows;
    uint radius;
};

void main() {
    uvec2 at = gl_GlobalInvocationID.xy;
    if (at.x >= width || at.y >= rows + 2u * radius) {
        return;
    }
    int y = clamp(int(first_row + at.y) - int(radius), 0, int(height) - 1);
    vec4 sum = vec4(0.0);
    for (uint tap = 0u; tap <= 2u * radius; ++tap) {
        int x = clamp(int(at.x + tap) - int(radius), 0, int(width) - 1);
        uint pixel = photo[uint(y) * width + uint(x)];
        vec4 colour = vec4(pixel & 255u, (pixel >> 8) & 255u, (pixel >> 16) & 255u, 255.0);
        sum += weights[tap] * colour;
    }
    scratch[at.y * width + at.x] = sum;
}
