#version 450
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) buffer Target { float v[]; } targets[2];
void main() { targets[1].v[0] = 1.0; }
