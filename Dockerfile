# The image of the scheduler: one static binary.
#
#   docker build --build-arg VERSION=v0.1.0 --tag reprieve-scheduler:dev .

FROM golang:1.26 AS build
WORKDIR /src
# The modules change less often than the code, so they are downloaded in a layer of their own.
COPY go.mod go.sum ./
COPY hack/tools/go.mod hack/tools/go.sum hack/tools/
RUN go mod download
COPY Makefile ./
COPY hack/build hack/build
COPY api api
COPY cmd cmd
COPY internal internal
COPY pkg pkg
# The default is the version that the Makefile uses without git.
ARG VERSION
RUN make reprieve-scheduler ${VERSION:+VERSION=${VERSION}}

# The image has no shell, no user database and no certificate authorities. The API server's authority is mounted with the token.
FROM scratch
COPY --from=build /src/bin/reprieve-scheduler /reprieve-scheduler
# The user is a number, because a kubelet cannot tell whether a user name is root's.
USER 65532:65532
EXPOSE 10259
ENTRYPOINT ["/reprieve-scheduler"]
