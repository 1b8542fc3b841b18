// Package toleration tests PriorityClasses whose toleration annotations are wrong, change or
// disappear, on a real API server.
package toleration
