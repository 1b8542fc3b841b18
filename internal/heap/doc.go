// Package heap provides a binary heap for items of any type, in an order that the caller defines.
package heap
