#version 450
#extension GL_EXT_nonuniform_qualifier : require
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) buffer Target { float v[]; } targets[];
void main() { targets[gl_GlobalInvocationID.x].v[0] = 1.0; }
