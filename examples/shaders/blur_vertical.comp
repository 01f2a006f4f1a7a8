#version 450
// Second half of a separable blur: down the columns of one tile. It writes every pixel of the tile it is bound to.
layout(local_size_x = 16, local_size_y = 16) in;

layout(binding = 0, std430) writeonly buffer Blurred { uint blurred[]; };
layout(binding = 1, std430) readonly buffer Scratch { vec4 scratch[]; };
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
    if (at.x >= width || at.y >= rows) {
        return;
    }
    vec3 sum = vec3(0.0);
    for (uint tap = 0u; tap <= 2u * radius; ++tap) {
        sum += weights[tap] * scratch[(at.y + tap) * width + at.x].rgb;
    }
    uvec3 colour = uvec3(clamp(sum + 0.5, vec3(0.0), vec3(255.0)));
    blurred[at.y * width + at.x] = colour.r | (colour.g << 8) | (colour.b << 16) | 0xff000000u;
}
