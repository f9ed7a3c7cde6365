package corelane.peers;

import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandler.Sharable;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.epoll.EpollIoHandler;
import io.netty.channel.epoll.EpollServerSocketChannel;
import io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.netty.handler.codec.http.FullHttpResponse;
import io.netty.handler.codec.http.HttpHeaderNames;
import io.netty.handler.codec.http.HttpObject;
import io.netty.handler.codec.http.HttpRequest;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.codec.http.HttpServerKeepAliveHandler;
import io.netty.handler.codec.http.HttpVersion;
import io.netty.handler.codec.http.QueryStringDecoder;
import io.netty.util.AsciiString;
import io.netty.util.internal.logging.InternalLoggerFactory;
import io.netty.util.internal.logging.JdkLoggerFactory;
import java.util.List;

/** The routes on Netty without Spring: an event loop for each processor, on Linux's epoll. */
@Sharable
final class NettyPeer extends SimpleChannelInboundHandler<HttpObject> {
    private static final int BACKLOG = 4096;
    private static final AsciiString TEXT = AsciiString.cached("text/plain; charset=utf-8");
    private static final ByteBuf HELLO = Unpooled.unreleasableBuffer(
            Unpooled.directBuffer().writeBytes(Plain.HELLO.getBytes())).asReadOnly();

    public static void main(String[] arguments) throws InterruptedException {
        // Otherwise Spring's logger writes everything, because only Spring configures it.
        InternalLoggerFactory.setDefaultFactory(JdkLoggerFactory.INSTANCE);
        Options options = Options.of(arguments);
        NettyPeer routes = new NettyPeer();
        int loops = Runtime.getRuntime().availableProcessors();
        new ServerBootstrap()
                .group(new MultiThreadIoEventLoopGroup(loops, EpollIoHandler.newFactory()))
                .channel(EpollServerSocketChannel.class)
                .option(ChannelOption.SO_BACKLOG, BACKLOG)
                .childHandler(new ChannelInitializer<Channel>() {
                    @Override
                    protected void initChannel(Channel connection) {
                        connection.pipeline().addLast(
                                new HttpServerCodec(), new HttpServerKeepAliveHandler(), routes);
                    }
                })
                .bind(options.address().getHost(), options.address().getPort())
                .sync().channel().closeFuture().sync();
    }

    /** The end of a request says nothing: a GET has no body. */
    @Override
    protected void channelRead0(ChannelHandlerContext context, HttpObject part) {
        if (part instanceof HttpRequest request) {
            context.write(reply(request));
        }
    }

    /** Replies to requests that came together are sent together. */
    @Override
    public void channelReadComplete(ChannelHandlerContext context) {
        context.flush();
    }

    @Override
    public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
        context.close();
    }

    private static FullHttpResponse reply(HttpRequest request) {
        if (request.decoderResult().isFailure()) {
            return empty(HttpResponseStatus.BAD_REQUEST);
        }
        QueryStringDecoder target = new QueryStringDecoder(request.uri());
        String path = target.path();
        if (path.equals("/hello")) {
            return text(HELLO.duplicate());
        }
        if (path.startsWith("/div/")) {
            return text(Plain.half(path.substring("/div/".length())));
        }
        if (path.equals("/work") || path.startsWith("/work/")) {
            return text(work(target.parameters().getOrDefault("ops", List.of(""))));
        }
        return empty(HttpResponseStatus.NOT_FOUND);
    }

    private static String work(List<String> ops) {
        try {
            return Plain.steps(Long.parseLong(ops.get(0)));
        } catch (NumberFormatException wrong) {
            return null;
        }
    }

    private static FullHttpResponse text(String body) {
        return body == null
                ? empty(HttpResponseStatus.BAD_REQUEST)
                : text(Unpooled.wrappedBuffer(body.getBytes()));
    }

    private static FullHttpResponse text(ByteBuf body) {
        FullHttpResponse reply = reply(HttpResponseStatus.OK, body);
        reply.headers().set(HttpHeaderNames.CONTENT_TYPE, TEXT);
        return reply;
    }

    private static FullHttpResponse empty(HttpResponseStatus status) {
        return reply(status, Unpooled.EMPTY_BUFFER);
    }

    private static FullHttpResponse reply(HttpResponseStatus status, ByteBuf body) {
        FullHttpResponse reply = new DefaultFullHttpResponse(HttpVersion.HTTP_1_1, status, body);
        reply.headers().setInt(HttpHeaderNames.CONTENT_LENGTH, body.readableBytes());
        return reply;
    }
}
