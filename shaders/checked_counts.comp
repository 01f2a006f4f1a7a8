#version 450
// Zeroes three group counts when any exceeds its limit.

layout(local_size_x = 1) in;

layout(constant_id = 0) const uint max_x = 0;
layout(constant_id = 1) const uint max_y = 0;
layout(constant_id = 2) const uint max_z = 0;

layout(set = 0, binding = 0, std430) buffer Counts { uint counts[]; };

void main() {
    if (counts[0] > max_x || counts[1] > max_y || counts[2] > max_z) {
        counts[0] = 0;
        counts[1] = 0;
        counts[2] = 0;
    }
}
