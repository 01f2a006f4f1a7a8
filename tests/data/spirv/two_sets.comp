#version 450
layout(local_size_x = 8, local_size_y = 4) in;
layout(set = 2, binding = 0) buffer Last { uint v[]; } last;
layout(set = 0, binding = 7) buffer Second { uint v[]; } second;
layout(set = 0, binding = 3) buffer First { uint v[]; };
void main() { last.v[0] = second.v[0] + v[0]; }
