#version 450
// The group size is of specialization constants.
layout(local_size_x_id = 0, local_size_y_id = 1) in;
layout(constant_id = 2) const uint stride = 1;
layout(binding = 0) writeonly buffer Plain { uint plain[]; };
layout(binding = 1) writeonly buffer Parts { uint by_parts[]; };
layout(binding = 2) writeonly buffer Strided { uvec2 strided[]; };
void main() {
    plain[gl_GlobalInvocationID.x] = gl_WorkGroupSize.x;
    by_parts[gl_WorkGroupID.x * gl_WorkGroupSize.x + gl_LocalInvocationID.x] = 1;
    strided[gl_GlobalInvocationID.x * stride] = uvec2(1);
}
