// Package dips remembers the nodes that offer less for a short time. A dip is a drop in a node's
// allocatable resources or in the offers of its device and volume drivers, or a temporary taint. A
// component that restarts on a node causes one, and the node recovers within seconds.
//
// [Dips.Without] returns a node as it was before its dips, so that the node keeps its reservations.
// [Dips.Over] lists the nodes whose dips have lasted too long to be temporary. The handlers of the
// informers report changes, and the caller passes the time.
package dips
