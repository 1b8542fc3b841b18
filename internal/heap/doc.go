// Package heap is the binary heap of what decides: of items of any type, in whatever order they come by.
package heap
