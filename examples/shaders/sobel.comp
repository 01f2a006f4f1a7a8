#version 450
// Sobel edges of the luma, in integers only, so that a CPU gives the same bits.
layout(local_size_x = 16, local_size_y = 16) in;

layout(binding = 0, std430) writeonly buffer Edges { uint edges[]; };
layout(binding = 1, std430) readonly buffer Photo { uint photo[]; };

layout(push_constant) uniform Push {
    uint width;
    uint height;
};

int luma(int x, int y) {
    x = clamp(x, 0, int(width) - 1);
    y = clamp(y, 0, int(height) - 1);
    uint pixel = photo[uint(y) * width + uint(x)];
    return int((77u * (pixel & 255u) + 150u * ((pixel >> 8) & 255u) + 29u * ((pixel >> 16) & 255u)) >> 8);
}

void main() {
    uvec2 at = gl_GlobalInvocationID.xy;
    if (at.x >= width || at.y >= height) {
        return;
    }
    int x = int(at.x);
    int y = int(at.y);
    int across = luma(x + 1, y - 1) + 2 * luma(x + 1, y) + luma(x + 1, y + 1)
               - luma(x - 1, y - 1) - 2 * luma(x - 1, y) - luma(x - 1, y + 1);
    int down = luma(x - 1, y + 1) + 2 * luma(x, y + 1) + luma(x + 1, y + 1)
             - luma(x - 1, y - 1) - 2 * luma(x, y - 1) - luma(x + 1, y - 1);
    uint edge = uint(min((abs(across) + abs(down)) / 2, 255));
    edges[at.y * width + at.x] = edge * 0x010101u | 0xff000000u;
}
