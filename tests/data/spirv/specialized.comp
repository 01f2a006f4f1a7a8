#version 450
// Group size and shared memory by specialization, the latter through constant operations.
layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z = 2) in;
layout(constant_id = 2) const uint per_invocation = 4;
layout(constant_id = 3) const bool twice = false;
layout(constant_id = 4) const int shrink = -3;
const uvec2 plane = gl_WorkGroupSize.yx;
const uint length = plane.x * plane.y * (twice ? 2 * per_invocation : per_invocation) + uint(shrink + 3);
layout(set = 0, binding = 0) buffer Target { float v[]; } target;
shared float tile[length];

void main() {
    uint i = gl_LocalInvocationIndex;
    tile[i] = float(i);
    barrier();
    target.v[gl_GlobalInvocationID.x] = tile[length - 1 - i];
}
