#version 450
// Which of an array's buffers is touched is a push constant.
layout(local_size_x = 16) in;
layout(std430, set = 0, binding = 0) buffer Target { uint v[]; } targets[4];
layout(push_constant) uniform Push { uint which; };
void main() { targets[which].v[gl_GlobalInvocationID.x] = which * 100 + gl_GlobalInvocationID.x; }
