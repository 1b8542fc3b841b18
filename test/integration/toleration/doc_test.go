// Package toleration tests tolerations of PriorityClasses on a real API server: invalid
// annotations, and classes that change or are deleted.
package toleration
