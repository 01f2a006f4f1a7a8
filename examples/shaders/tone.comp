#version 450
// Looks every channel up in the tone curve.
layout(local_size_x = 16, local_size_y = 16) in;

layout(binding = 0, std430) writeonly buffer Toned { uint toned[]; };
layout(binding = 1, std430) readonly buffer Photo { uint photo[]; };
layout(binding = 2, std430) readonly buffer Curve { uint curve[256]; };

layout(push_constant) uniform Push {
    uint width;
    uint height;
};

void main() {
    uvec2 at = gl_GlobalInvocationID.xy;
    if (at.x >= width || at.y >= height) {
        return;
    }
    uint pixel = photo[at.y * width + at.x];
    uint red = curve[pixel & 255u];
    uint green = curve[(pixel >> 8) & 255u];
    uint blue = curve[(pixel >> 16) & 255u];
    toned[at.y * width + at.x] = red | (green << 8) | (blue << 16) | 0xff000000u;
}
