#version 450
// Puts the three results together: the toned picture with a glow from the blurred one, its edges drawn in.
layout(local_size_x = 16, local_size_y = 16) in;

layout(binding = 0, std430) writeonly buffer Composite { uint composite[]; };
layout(binding = 1, std430) readonly buffer Blurred { uint blurred[]; };
layout(binding = 2, std430) readonly buffer Edges { uint edges[]; };
layout(binding = 3, std430) readonly buffer Toned { uint toned[]; };

layout(push_constant) uniform Push {
    uint width;
    uint height;
};

void main() {
    uvec2 at = gl_GlobalInvocationID.xy;
    if (at.x >= width || at.y >= height) {
        return;
    }
    uint i = at.y * width + at.x;
    uint light = 255u - (edges[i] & 255u) / 2u;
    uint result = 0xff000000u;
    for (int shift = 0; shift < 24; shift += 8) {
        uint glow = (3u * ((toned[i] >> shift) & 255u) + ((blurred[i] >> shift) & 255u) + 2u) / 4u;
        result |= ((glow * light + 127u) / 255u) << shift;
    }
    composite[i] = result;
}
