#version 450
// The tone curve of a histogram: half way between the picture as it is and one whose lumas are spread evenly.
// One group of 64, four levels each.
layout(local_size_x = 64) in;

layout(binding = 0, std430) writeonly buffer Curve { uint curve[256]; };
layout(binding = 1, std430) readonly buffer Bins { uint bins[256]; };

layout(push_constant) uniform Push {
    uint width;
    uint height;
};

void main() {
    uint pixels = width * height;
    for (uint i = 0u; i < 4u; ++i) {
        uint level = gl_GlobalInvocationID.x * 4u + i;
        uint below = 0u;
        for (uint bin = 0u; bin <= level; ++bin) {
            below += bins[bin];
        }
        // floor(256 * below / pixels) by long division: the product alone would overflow on a picture of 17 megapixels.
        uint spread = below / pixels;
        uint rest = below % pixels;
        for (int bit = 0; bit < 8; ++bit) {
            rest *= 2u;
            spread *= 2u;
            if (rest >= pixels) {
                rest -= pixels;
                spread += 1u;
            }
        }
        curve[level] = (level + min(spread, 255u)) / 2u;
    }
}
