#version 450
// Two variables for one binding: what is done through either counts.
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) buffer A { uint v[]; } a;
layout(set = 0, binding = 0) buffer B { float v[]; } b;
layout(set = 0, binding = 1) buffer C { uint v[]; } c;
void main() { c.v[0] = a.v[1]; b.v[2] = 1.0; }
