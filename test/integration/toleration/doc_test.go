// Package toleration is about PriorityClasses whose toleration annotations are wrong, change or go, on a real API server.
package toleration
