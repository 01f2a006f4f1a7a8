#version 450
// Binds a descriptor set that no pipeline layout of a device can hold.
layout(local_size_x = 1) in;
layout(set = 40, binding = 0) writeonly buffer To { uint to[]; };
void main() { to[0] = 1u; }
