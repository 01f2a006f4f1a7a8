#version 450
// The group size and the value stored are specialization constants.
layout(local_size_x_id = 0) in;
layout(local_size_x = 1) in;
layout(constant_id = 1) const uint value = 5u;
layout(set = 0, binding = 0) writeonly buffer To { uint to[]; };
void main() { to[gl_GlobalInvocationID.x] = value; }
