#version 450
// Counts the pixels of each luma. It adds to what is there: the bins are zeroed before.
layout(local_size_x = 64) in;

layout(binding = 0, std430) buffer Bins { uint bins[256]; };
layout(binding = 1, std430) readonly buffer Photo { uint photo[]; };

layout(push_constant) uniform Push {
    uint width;
    uint height;
};

void main() {
    // One row each: a grid of 64 by one stays below every limit on group counts.
    uint y = gl_GlobalInvocationID.x;
    if (y >= height) {
        return;
    }
    for (uint x = 0u; x < width; ++x) {
        uint pixel = photo[y * width + x];
        uint luma = (77u * (pixel & 255u) + 150u * ((pixel >> 8) & 255u) + 29u * ((pixel >> 16) & 255u)) >> 8;
        atomicAdd(bins[luma], 1u);
    }
}
