// Package image makes container images for several platforms, and an index of these images. It
// writes them in the layout of the Open Container Initiative, without Docker. The same files
// produce the same bytes.
//
// An image contains one static program and the licences. It contains no shell, no user database and
// no certificate authorities. The programs call only the API server of Kubernetes, and their
// configuration has its certificate authority.
package image
