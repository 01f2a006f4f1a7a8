#version 450
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 1) in;
layout(buffer_reference) buffer Anywhere { float v[]; };
layout(set = 0, binding = 0) buffer Target { Anywhere there; } target;
void main() { target.there.v[0] = 1.0; }
