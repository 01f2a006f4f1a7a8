#version 450
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) buffer Target { float v[]; } target;
layout(set = 0, binding = 1) uniform sampler2D picture;
void main() { target.v[0] = textureLod(picture, vec2(0), 0.0).x; }
